"""How each family of operators computes its witness."""
